from skillviz.tasks.task import Task
TASKS: dict[str, Task] = {}

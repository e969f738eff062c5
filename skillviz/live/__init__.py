"""One worker process that has the models and answers the live pages; the client half does not import torch."""

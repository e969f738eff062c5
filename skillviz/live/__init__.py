"""One worker process that owns models and answers the live pages; the client half is free of torch."""

"""Many processes: launching, rendezvous, collectives, FSDP, tensor parallelism, watchdog."""

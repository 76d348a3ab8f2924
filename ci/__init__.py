"""The task suite that runs verl's end-to-end CI."""

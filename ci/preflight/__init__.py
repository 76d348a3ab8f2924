"""Checks of a plan against verl's configuration and this machine, before anything is started."""

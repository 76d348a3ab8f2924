"""Executing a plan, and everything that is known about it afterwards."""

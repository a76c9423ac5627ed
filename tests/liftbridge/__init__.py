"""Liftbridge: its envelope, its clients, and NATS."""

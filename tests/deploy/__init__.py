"""What is in docs/deploy: rules, a dashboard, units, files for containers."""

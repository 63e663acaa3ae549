"""What people install, as it is built and used."""

"""What each endpoint answers: one file for each group of endpoints. Schemas that several need are in `schemas.py`."""

"""Random legal programs of many threads on few streams, and the same with one defect of the catalogue in the middle."""

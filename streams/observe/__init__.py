"""Logs, metrics, spans and reports of workers, and the pages of the HTTP port."""

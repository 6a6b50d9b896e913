"""The HTTP service of an index: JSON in and out, described by OpenAPI, on starlette and uvicorn.

| file | what it does |
|---|---|
| supervisor.py | run one worker, or several, and replace those that die |
| server.py | one worker: the socket, the server, signals |
| connections.py | timeouts and limits of connections, below HTTP requests |
| application.py | the routes, and what surrounds every request: host check, headers, access log, counters |
| endpoint.py | one endpoint: key, limits, body, validation, work in a thread, answer |
| answers/ | what each endpoint answers; answers about all titles come from a sample |
| about_folder.py | the folder that tells about the model: what was measured, what the doctor found |
| schemas.py | the requests and responses as types |
| page_files.py | the web page at /, whose files are in page/ |
| click_log.py | the log of impressions and clicks that `prepare` and `retrain` read |
| query_counts.py | what people searched, counted over all workers, in memory |
| remembered.py | answers about all titles, computed once |
| keys.py | API keys, hashed |
| counters.py | counts and latencies of all workers in shared memory, as Prometheus text |
| openapi.py | the description of the API |
| retraining.py | `clickvec retrain`: learn from the click log and swap the model |
"""

"""A local model behind OpenAI's HTTP protocol, so that other people's harnesses can talk to what was trained here.

`api.py` has the routes, `requests.py` reads what comes in, `jobs.py` turns it into tokens, `service.py` samples the
turns of all requests together, `replies.py` writes the answers, `server.py` owns socket, connections and shutdown.
"""

#!/usr/bin/env python3
"""Run the middleware beside this file against a scripted API, without any operator: /usr/bin/python3 try_alone.py

It shows what a demo cannot: lost answers, a standby, a refusal with Retry-After, a new ledger, a lease whose proxy is
gone, credentials, and a request for what nothing matches. It ends with 0 when the middleware did right each time.
"""

import base64
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import scrapy
from scrapy.crawler import CrawlerProcess

USER, PASSWORD = "crawler", "p@ss:w/rd"
asked = []  # (time, method, path, body, key) of what came to the API
through = []  # what came to the proxy


class Proxy(BaseHTTPRequestHandler):
    """A proxy that answers in place of every target."""

    def do_GET(self):
        auth = self.headers.get("Proxy-Authorization", "")
        through.append((self.path, auth == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    grants = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked.append((time.monotonic(), "POST", self.path, body, self.headers.get("Idempotency-Key")))
        if self.headers["Authorization"] != "Bearer secret":
            return self.answer(401, {"error": "unauthorized", "message": "?"})
        if self.path != "/v1/leases":
            # Every renewal finds that the proxy was replaced.
            return self.answer(410, {"error": "proxy_gone", "message": "?"})
        n = sum(1 for a in asked if a[2] == "/v1/leases")
        if body["target"] == "nowhere.test":
            return self.answer(409, {"error": "no_match", "message": "?", "considered": 0})
        if n == 1:
            self.close_connection = True  # no answer at all
        elif n == 2:
            self.answer(503, {"error": "not_leader", "message": "?"}, Connection="close")
        elif n == 3:
            self.answer(409, {"error": "no_match", "message": "?", "considered": 1}, **{"Retry-After": "2"})
        else:
            Api.grants += 1
            self.answer(201, {
                "leaseID": f"lease-{Api.grants}", "ttlSeconds": 6, "epoch": "first" if Api.grants == 1 else "second",
                "proxy": {"name": "p", "url": PROXY, "auth": {"username": USER, "password": PASSWORD}},
            })

    def do_DELETE(self):
        asked.append((time.monotonic(), "DELETE", self.path, None, None))
        self.answer(204)

    def answer(self, status, body=None, **headers):
        data = json.dumps(body).encode() if body else b""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Steps(scrapy.Spider):
    name = "steps"
    failures = []

    def start_requests(self):
        yield scrapy.Request("http://one.test./a", self.then_two)

    def then_two(self, _):
        yield scrapy.Request("http://two.test/b", self.then_one_again)

    def then_one_again(self, _):
        # The answer for two.test came from another ledger, so the lease for one.test is not to be used any more.
        yield scrapy.Request("http://one.test/c", self.then_wait)

    def then_wait(self, _):
        # The delay between two requests to a host lets a heartbeat pass, which learns that the lease is gone.
        yield scrapy.Request("http://one.test/d", self.then_nowhere)

    def then_nowhere(self, _):
        yield scrapy.Request("http://nowhere.test/e", errback=self.failed)

    def failed(self, failure):
        self.failures.append(failure.type.__name__)


def serve(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main():
    global PROXY
    PROXY = serve(Proxy)
    sys.path.insert(0, str(Path(__file__).parent))
    process = CrawlerProcess({
        "DOWNLOADER_MIDDLEWARES": {"egress_leases.LeaseMiddleware": 740},
        # A heartbeat comes every two seconds.
        "EGRESS_API": serve(Api), "EGRESS_TOKEN": "secret", "EGRESS_TTL": 6, "LOG_LEVEL": "INFO",
        "DOWNLOAD_DELAY": 2.5, "RANDOMIZE_DOWNLOAD_DELAY": False, "TELNETCONSOLE_ENABLED": False,
    })
    crawler = process.create_crawler(Steps)
    process.crawl(crawler)
    process.start()

    acquired = [a for a in asked if a[2] == "/v1/leases"]
    keys = [a[4] for a in acquired]
    assert keys[0] == keys[1], "a request without an answer is repeated under its key"
    assert len(set(keys[1:])) == len(keys) - 1, "a request with an answer is not"
    assert acquired[0][3]["target"] == "one.test", acquired[0][3]
    assert acquired[3][0] - acquired[2][0] >= 2, "Retry-After was not kept"
    assert [p for p, _ in through] == ["http://one.test./a", "http://two.test/b", "http://one.test/c", "http://one.test/d"], through
    assert all(ok for _, ok in through), "the credentials did not reach the proxy"
    released = {a[2] for a in asked if a[1] == "DELETE"}
    assert "/v1/leases/lease-1" not in released, "the lease of the old ledger was released in the new one"
    assert released >= {"/v1/leases/lease-2", "/v1/leases/lease-3"}, released
    assert any(a[2].endswith("/renew") for a in asked), "there was no heartbeat"
    assert Steps.failures == ["NoProxy"], Steps.failures
    stats = crawler.stats.get_stats()
    assert stats["egress/epochs"] == 1 and stats["egress/leases"] == Api.grants, stats
    print("ok")


if __name__ == "__main__":
    main()

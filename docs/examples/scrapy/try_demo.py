#!/usr/bin/env python3
"""Crawl a local origin through the proxies of `make demo`, with the middleware beside this file.

    $ EGRESS_API=http://127.0.0.1:… DISCOVERY_TOKEN=… /usr/bin/python3 docs/examples/scrapy/try_demo.py

The origin bans the first exit address that it sees. The script ends with 0 when every page came, none of them through the
banned exit after its ban, and no lease was left behind.
"""

import json
import os
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import scrapy
from scrapy.crawler import CrawlerProcess

PAGES = 30
API, TOKEN = os.environ["EGRESS_API"], os.environ["DISCOVERY_TOKEN"]
seen = []  # exit address and status of each request, in order


class Origin(BaseHTTPRequestHandler):
    def do_GET(self):
        exit_address = self.client_address[0]
        # The first three requests are fine; after that the exit that they came through is banned.
        banned = len(seen) >= 3 and exit_address == seen[0][0]
        seen.append((exit_address, 403 if banned else 200))
        self.send_response(seen[-1][1])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Pages(scrapy.Spider):
    name = "pages"
    fetched = set()

    def start_requests(self):
        for n in range(PAGES):
            yield scrapy.Request(f"{self.origin}/page/{n}")

    def parse(self, response):
        self.fetched.add(response.url)


def api(method, path):
    request = urllib.request.Request(API + path, method=method, headers={"Authorization": "Bearer " + TOKEN})
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or "null")


def main():
    sys.path.insert(0, str(Path(__file__).parent))
    for proxy in api("GET", "/v1/proxies?attr.country=de")["proxies"]:
        api("DELETE", f"/v1/cooldowns?proxy={proxy['namespace']}/{proxy['name']}&target=127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process = CrawlerProcess({
        "DOWNLOADER_MIDDLEWARES": {"egress_leases.LeaseMiddleware": 740},
        "EGRESS_API": API, "EGRESS_TOKEN": TOKEN, "EGRESS_SELECTOR": {"country": "de"}, "EGRESS_TTL": 60,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "RETRY_TIMES": 5, "LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False,
        "TWISTED_REACTOR": os.environ.get("TWISTED_REACTOR"),
    })
    crawler = process.create_crawler(Pages)
    process.crawl(crawler, origin=f"http://127.0.0.1:{server.server_port}")
    process.start()
    server.shutdown()

    stats = {k: v for k, v in crawler.stats.get_stats().items() if k.startswith("egress/")}
    print("exits in order:", " ".join(f"{e}:{s}" for e, s in seen))
    print("stats:", stats)
    bans = [i for i, (_, status) in enumerate(seen) if status == 403]
    assert len(Pages.fetched) == PAGES, f"{len(Pages.fetched)} pages of {PAGES}"
    assert len(bans) == 1, f"{len(bans)} requests met the ban, the first report should have ended it"
    assert {e for e, _ in seen[bans[0] + 1:]} and seen[0][0] not in {e for e, _ in seen[bans[0] + 1:]}, "the banned exit came again"
    assert stats["egress/leases"] == 2 and stats["egress/reports/banned"] == 1, stats
    left = [p["name"] for p in api("GET", "/v1/proxies")["proxies"] if p["activeLeases"]]
    assert not left, f"leases were left on {left}"
    print("ok")


if __name__ == "__main__":
    main()

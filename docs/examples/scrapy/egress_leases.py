"""Scrapy downloader middleware that fetches every request through a leased egress proxy.

    DOWNLOADER_MIDDLEWARES = {"egress_leases.LeaseMiddleware": 740}   # before HttpProxyMiddleware at 750
    EGRESS_API = "http://egress-proxies.example:8090"
    EGRESS_TOKEN = os.environ["DISCOVERY_TOKEN"]

It holds one lease per target host. Requests to one host share it, a heartbeat renews it while it is used and releases it
when it is not, and the end of the spider releases all of them. An answer that says "ban" or "too fast" is reported, the
lease is given back, and the request is sent again through another proxy. Requests that bring their own meta["proxy"] are
left alone. Needs Scrapy 2.6 or newer and nothing else.
"""

import ipaddress
import json
import logging
import time
import urllib.error
import urllib.request
import uuid
from urllib.parse import quote, urlsplit

from scrapy import signals
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet import defer, task, threads

logger = logging.getLogger(__name__)


class NoProxy(IgnoreRequest):
    """No proxy could be leased within EGRESS_PATIENCE, or none matches at all."""


class ApiError(Exception):
    """An answer of the API other than a success."""

    def __init__(self, status, body, retry_after):
        super().__init__(f"{status} {body.get('error')}: {body.get('message')}")
        self.status, self.body, self.retry_after = status, body, retry_after


class Api:
    """The calls that the middleware makes. They block, so they run in threads."""

    def __init__(self, base, token, timeout):
        self.base, self.token, self.timeout = base.rstrip("/"), token, timeout
        # The way to the API is never through a proxy, whatever the environment says.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method, path, body=None, headers=None):
        """Return the decoded answer, None when it has no body. Raise ApiError, or OSError when there was no answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers=headers or {})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=self.timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as e:
            with e:
                try:
                    told = json.loads(e.read())
                except ValueError:
                    told = {"error": "unknown", "message": "the answer is not the API's"}
                raise ApiError(e.code, told, int(e.headers.get("Retry-After") or 0)) from None
        return json.loads(text) if text else None


class Lease:
    """A lease as far as this process knows. Its end is on the local monotonic clock, counted from before the request
    was sent: it is never later than the server's, however the two wall clocks differ."""

    def __init__(self, host, answer, sent):
        self.host, self.id, self.epoch = host, answer["leaseID"], answer["epoch"]
        self.name, self.url = answer["proxy"]["name"], proxy_url(answer["proxy"])
        self.users = 0  # requests under way
        self.retired = False  # no further request may take it
        self.reported = False
        self.extend(answer, sent)

    def extend(self, answer, sent):
        self.ends, self.used = sent + answer["ttlSeconds"], False

    def usable(self):
        return not self.retired and time.monotonic() < self.ends


def proxy_url(proxy):
    """The URL with the credentials in it, which HttpProxyMiddleware turns into Proxy-Authorization."""
    auth = proxy.get("auth")
    if not auth:
        return proxy["url"]
    scheme, rest = proxy["url"].split("://", 1)
    return f"{scheme}://{quote(auth['username'], safe='')}:{quote(auth['password'], safe='')}@{rest}"


def target_of(host):
    """The spelling of a host that the API takes: lower case, A-labels, no trailing dot, RFC 5952."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.rstrip(".").encode("idna").decode().lower() if not host.isascii() else host.rstrip(".").lower()


class LeaseMiddleware:
    """See the module."""

    def __init__(self, crawler):
        s = crawler.settings
        base = s.get("EGRESS_API")
        if not base:
            raise NotConfigured("EGRESS_API is not set")
        if urlsplit(base).scheme not in ("http", "https"):
            raise ValueError("EGRESS_API must be an http or https URL")
        self.crawler, self.stats = crawler, crawler.stats
        self.ttl = s.getint("EGRESS_TTL", 300)
        # Well below the TTL, which this process counts from before the wait; the API allows 30.
        self.wait = min(s.getint("EGRESS_WAIT", 20), self.ttl // 3, 30)
        self.patience = s.getint("EGRESS_PATIENCE", 300)
        self.namespace, self.selector = s.get("EGRESS_NAMESPACE"), s.getdict("EGRESS_SELECTOR")
        self.prefer = s.get("EGRESS_PREFER")
        self.results = {int(k): v for k, v in (s.getdict("EGRESS_RESULTS") or {403: "banned", 429: "rate_limited"}).items()}
        self.api = Api(base, s.get("EGRESS_TOKEN"), timeout=self.wait + 10)
        self.epoch = None
        # Scrapy queues what has passed its middlewares. If the queue took many requests, all of them would go through a
        # lease that was banned at the first one.
        self.width = s.getint("EGRESS_REQUESTS_PER_LEASE", s.getint("CONCURRENT_REQUESTS_PER_DOMAIN", 8))
        self.leases, self.locks, self.lanes, self.held = {}, {}, {}, set()
        self.heart = task.LoopingCall(lambda: deferred_from_coro(self.beat()))

    @classmethod
    def from_crawler(cls, crawler):
        self = cls(crawler)
        crawler.signals.connect(self.opened, signal=signals.spider_opened)
        crawler.signals.connect(self.closed, signal=signals.spider_closed)
        return self

    def opened(self, spider):
        self.heart.start(max(1, self.ttl / 3), now=False)

    async def closed(self, spider):
        if self.heart.running:
            self.heart.stop()
        for lease in list(self.held):
            await self.release(lease)

    # What Scrapy calls for each request.

    async def process_request(self, request, spider):
        if request.meta.get("proxy") and not request.meta.get("egress_proxied"):
            return
        host = urlparse_cached(request).hostname
        if not host:
            return
        host = target_of(host)
        lane = self.lanes.setdefault(host, defer.DeferredSemaphore(self.width))
        await maybe_deferred_to_future(lane.acquire())
        try:
            lease = await self.lease_for(host)
        except BaseException:
            lane.release()
            raise
        lease.users, lease.used = lease.users + 1, True
        # A retry or a redirect takes meta along: the mark stays, the lease is taken out when the request is done.
        request.meta.update(proxy=lease.url, egress_proxied=True, egress_lease=lease)

    async def process_response(self, request, response, spider):
        lease, result = request.meta.get("egress_lease"), self.results.get(response.status)
        if lease is None or result is None:
            await self.done_with(request)
            return response
        # In this order: nobody else takes the lease, the proxy rests, and only then it is free for others.
        lease.retired = True
        if not lease.reported:
            await self.report(lease, result)
        await self.done_with(request)
        return get_retry_request(request, spider=spider, reason=f"egress {result}") or response

    async def process_exception(self, request, exception, spider):
        # The proxy failed, or the target behind it. Nothing is said about the proxy, the operator probes it by itself; the
        # retry gets another lease, if only on the same proxy.
        if "egress_lease" in request.meta:
            request.meta["egress_lease"].retired = True
            await self.done_with(request)

    # Leases.

    async def lease_for(self, host):
        lock = self.locks.setdefault(host, defer.DeferredLock())
        await maybe_deferred_to_future(lock.acquire())
        try:
            lease = self.leases.get(host)
            if lease is None or not lease.usable():
                if lease is not None:
                    await self.retire(lease)
                lease = await self.acquire(host)
                self.leases[host] = lease
            return lease
        finally:
            lock.release()

    async def acquire(self, host):
        body = {"target": host, "ttlSeconds": self.ttl, "waitSeconds": self.wait, "selector": self.selector}
        body.update({k: v for k, v in (("namespace", self.namespace), ("prefer", self.prefer)) if v})
        give_up = time.monotonic() + self.patience
        key = None
        while True:
            if key is None:
                # One key until there is an answer: if a lease was granted and the answer got lost, this finds it.
                key, sent = uuid.uuid4().hex, time.monotonic()
            try:
                answer = await self.call("POST", "/v1/leases", body, {"Idempotency-Key": key})
            except ApiError as e:
                key, pause = None, e.retry_after or 1
                if e.status == 409 and e.body.get("considered") == 0:
                    raise NoProxy(f"no proxy matches {self.selector} for {host}") from e
                if e.status not in (409, 503):
                    raise
                refusal = e
            except OSError as e:
                pause, refusal = 1, e
            else:
                lease = Lease(host, answer, sent)
                self.know(lease)
                self.held.add(lease)
                self.count("leases")
                return lease
            if time.monotonic() + pause > give_up:
                raise NoProxy(f"no proxy for {host} within {self.patience} s: {refusal}") from refusal
            self.count("waits")
            await self.sleep(pause)

    def know(self, lease):
        """Take in the epoch of an answer. Another one than before means that the ledger has forgotten the leases of this
        process: others may be given the same proxies, so nothing more is sent through them."""
        if self.epoch not in (None, lease.epoch):
            logger.warning("The API has a new ledger: %d leases are gone", len(self.held))
            self.count("epochs")
            for old in [old for old in self.held if old.epoch != lease.epoch]:
                self.forget(old)
        self.epoch = lease.epoch

    async def beat(self):
        """Renew what was used since the last beat or is in use, release what was not."""
        for lease in list(self.held):
            if lease.retired or not (lease.users or lease.used):
                await self.retire(lease)
                continue
            sent = time.monotonic()
            try:
                answer = await self.call("POST", f"/v1/leases/{lease.id}/renew", {"ttlSeconds": self.ttl})
                lease.extend(answer, sent)
            except ApiError as e:
                # 409 draining: it lasts a while but not longer, so the next request gets another one. 404 and 410: it is
                # over. 503: it may live on, the next beat will tell.
                if e.status != 503:
                    logger.info("Lease on %s: %s", lease.name, e)
                    await self.retire(lease)
            except OSError as e:
                logger.info("Lease on %s could not be renewed: %s", lease.name, e)

    async def report(self, lease, result):
        lease.reported = True  # before the answer: one report is enough
        self.count("reports/" + result)
        try:
            await self.call("POST", f"/v1/leases/{lease.id}/report", {"result": result, "target": lease.host})
        except (ApiError, OSError) as e:
            logger.warning("Report on %s was lost: %s", lease.name, e)

    async def done_with(self, request):
        """Take the request off its lease, which is released when that was the last one of a retired lease."""
        lease = request.meta.pop("egress_lease", None)
        if lease is not None:
            lease.users -= 1
            self.lanes[lease.host].release()
            if lease.retired:
                await self.retire(lease)

    async def retire(self, lease):
        """Give the lease to nobody from now on, and release it once nothing is under way through it."""
        lease.retired = True
        if self.leases.get(lease.host) is lease:
            del self.leases[lease.host]
        if lease.users <= 0 and lease in self.held:
            await self.release(lease)

    async def release(self, lease):
        self.forget(lease)
        try:
            await self.call("DELETE", f"/v1/leases/{lease.id}")
        except (ApiError, OSError) as e:
            logger.info("Lease on %s was not released, it will run out: %s", lease.name, e)

    def forget(self, lease):
        lease.retired = True
        self.held.discard(lease)
        if self.leases.get(lease.host) is lease:
            del self.leases[lease.host]

    # Small things.

    def call(self, *args):
        return maybe_deferred_to_future(threads.deferToThread(self.api.call, *args))

    def sleep(self, seconds):
        from twisted.internet import reactor

        return maybe_deferred_to_future(task.deferLater(reactor, seconds, lambda: None))

    def count(self, what):
        self.stats.inc_value("egress/" + what)

// Keeps what was opened, so that the course works without a network: the newest answer, else the one that is kept.
const KEPT = "uwaga-course";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== self.location.origin) return;
  event.respondWith(
    (async () => {
      const kept = await caches.open(KEPT);
      try {
        const answer = await fetch(request);
        if (answer.ok) await kept.put(request, answer.clone());
        return answer;
      } catch (error) {
        const found = await kept.match(request, { ignoreSearch: true });
        if (found) return found;
        throw error;
      }
    })(),
  );
});

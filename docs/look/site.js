// The script of every page. It runs before the theme's, which asks for the search's index at once.
{
  const { src, dataset } = document.currentScript;

  // A page that was opened can be opened again without a network.
  if (location.protocol.startsWith("http"))
    navigator.serviceWorker?.register(new URL("../sw.js", src)).catch(() => {});

  // A figure that scrolls, on a phone, can be scrolled with the keyboard.
  for (const change of ["load", "resize"])
    addEventListener(change, () => {
      for (const figure of document.querySelectorAll(".figure"))
        if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
        else figure.removeAttribute("tabindex");
    });

  // The search's index is larger than a page: fetch that of the page's language when the search is first used.
  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    this.isIndex = /\/search_index\.json$/.test(url);
    const address = this.isIndex ? new URL(dataset.index, new URL(url, location)) : url;
    return open.call(this, method, address, ...rest);
  };
  XMLHttpRequest.prototype.send = function (...body) {
    if (!this.isIndex) return send.apply(this, body);
    const used = (event) => {
      if (!event.target.closest("[data-md-component=search]")) return;
      document.removeEventListener("focusin", used);
      send.apply(this, body);
    };
    document.addEventListener("focusin", used);
  };
}

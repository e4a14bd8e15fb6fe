// Runs a worker's script in a hidden frame on pages that are opened from disk, where browsers start no workers; the
// site's search is one. The offline plugin fetches a script for this from elsewhere unless one of this name is there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!DOCTYPE html>";
      const load = (source) => new Promise((resolve, reject) => {
        const script = frame.contentDocument.createElement("script");
        Object.assign(script, { src: source, onload: resolve, onerror: reject });
        frame.contentDocument.head.append(script);
      });
      this.frame = frame;
      this.ready = new Promise((resolve) => { frame.onload = resolve; }).then(() => {
        const inside = frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inside.importScripts = (...sources) => Promise.all(sources.map(load));
        return load(new URL(url, location.href).href);
      });
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}

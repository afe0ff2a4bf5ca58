// The address after `#`: the view and its fields. All filters, the order and the page are in it, so each state of a
// view is a link, and a field of one view is not one of another.
export function route() {
  const [view, query] = location.hash.slice(1).split("?");
  return { view: view || "overview", fields: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function link(view, fields) {
  const query = new URLSearchParams(
    Object.entries(fields || {}).filter(([, value]) => value !== "" && value !== null && value !== undefined),
  );
  return `#${view}${[...query].length ? `?${query}` : ""}`;
}

// Changes fields of this view. Without `first` it goes to the first page.
export function refine(fields) {
  const { view, fields: now } = route();
  const next = link(view, { ...now, first: "", ...fields });
  history.replaceState(null, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

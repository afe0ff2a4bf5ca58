// What the reader prefers, kept in the browser: the theme, and the zone of times.
const kept = (name, values) =>
  values.includes(localStorage.getItem(name)) ? localStorage.getItem(name) : values[0];
export const THEMES = ["system", "light", "dark"];
export const ZONES = ["local", "UTC"];
export const settings = { theme: kept("theme", THEMES), zone: kept("zone", ZONES) };

const apply = () => {
  document.documentElement.dataset.theme = settings.theme;
};
export function prefer(name, value) {
  settings[name] = value;
  localStorage.setItem(name, value);
  apply();
  dispatchEvent(new Event("settings"));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("settings")));
apply();

// Questions and changes. The token stays in this tab's session; the secret is new with each run of the worker.
let token = sessionStorage.getItem("token") || "";
let secret = "";
let ask = () => {}; // shows the dialog for the token

export const whenTokenIsMissing = (act) => {
  ask = act;
};
export function useToken(text) {
  token = text;
  sessionStorage.setItem("token", text);
}

async function call(path, options) {
  const headers = { ...(options && options.headers) };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Error("the worker does not answer");
  }
  if (answer.status === 401) {
    ask();
    throw new Error("the token is missing or wrong");
  }
  const content = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new Error(content.error || answer.statusText);
  return content;
}

const filled = (query) =>
  Object.fromEntries(
    Object.entries(query || {}).filter(([, value]) => value !== "" && value !== undefined && value !== null),
  );
export const question = (name, query) => call(`/console/${name}?${new URLSearchParams(filled(query))}`);

export async function session() {
  const content = await question("session");
  secret = content.secret;
  return content;
}
export const change = (name, body) =>
  call(`/console/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Sluicegate-Change": secret },
    body: JSON.stringify(body),
  });

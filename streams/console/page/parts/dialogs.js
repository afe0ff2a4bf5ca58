// The dialogs: the token, a change with its reason, and details. One is open at a time.
import { Component, html } from "../core/html.js";
import { live, read } from "../core/live.js";
import { change, useToken, whenTokenIsMissing } from "../core/server.js";
import { Button } from "./controls.js";

let open = null,
  number = 0,
  shown = () => {};

function show(made) {
  open = made && { ...made, number: ++number };
  shown();
}
export const detail = (title, content) => show({ type: Detail, title, content });
// `body` goes to the change `name` with the reason. `verb` is on the button.
export const confirm = (name, verb, text, body, danger) =>
  show({ type: Change, name, title: verb, text, body, danger });
whenTokenIsMissing(() => {
  if (!open || open.type !== Login) show({ type: Login, title: "Token" });
});

class Modal extends Component {
  constructor() {
    super();
    this.keep = (element) => {
      this.element = element;
    };
  }
  componentDidMount() {
    this.element.showModal();
  }
  render({ title, children }) {
    return html`<dialog ref=${this.keep} aria-labelledby="dialog-title" onClose=${() => show(null)}>
      <h2 id="dialog-title">${title}</h2>
      ${children}
    </dialog>`;
  }
}

const close = (event) => event.target.closest("dialog").close();

const Detail = ({ title, content }) =>
  html`<${Modal} title=${title}>
    <div class="detail">${content}</div>
    <p class="buttons"><${Button} act=${close}>Close<//></p><//
  >`;

class Login extends Component {
  render({ title }) {
    const send = (event) => {
      event.preventDefault();
      useToken(event.target.elements.token.value);
      close(event);
      read();
    };
    return html`<${Modal} title=${title}
      ><form onSubmit=${send}>
        <label class="field wide"
          ><span>The <code>http.token</code> of the file</span>
          <input id="token" name="token" type="password" autocomplete="off" required
        /></label>
        <p class="buttons"><button class="button primary">Open</button></p>
      </form><//
    >`;
  }
}

function problem(outcome) {
  if (outcome.left_out && outcome.left_out.length)
    return outcome.left_out.map((each) => `${each.id} was left out: ${each.why}`).join("; ");
  if (outcome.refused && outcome.refused.length)
    return `${outcome.refused.join(", ")}: retried before; the audit says when`;
  return "";
}

class Change extends Component {
  constructor() {
    super();
    this.state = { ask: "", error: "", busy: false };
  }
  async send(event, { name, body }) {
    event.preventDefault();
    const { why, by } = event.target.elements,
      dialog = event.target.closest("dialog");
    localStorage.setItem("by", by.value);
    this.setState({ busy: true, error: "" });
    try {
      const outcome = await change(name, {
        ...body,
        why: why.value,
        by: by.value,
        ...(this.state.ask ? { yes: true } : {}),
      });
      const error = problem(outcome);
      this.setState({ busy: false, ask: outcome.ask || "", error });
      if (!outcome.ask && !error) dialog.close();
      read();
    } catch (error) {
      this.setState({ busy: false, error: error.message });
    }
  }
  render({ name, title, text, body, danger }, { ask, error, busy }) {
    return html`<${Modal} title=${title}
      ><form onSubmit=${(event) => this.send(event, { name, body })}>
        <p>${text}</p>
        <label class="field wide"
          ><span>Reason</span><input id="why" name="why" required maxlength="500" autocomplete="off"
        /></label>
        <label class="field wide"
          ><span>Your name</span
          ><input id="by" name="by" maxlength="100" autocomplete="off" value=${localStorage.getItem("by") || ""}
        /></label>
        ${ask && html`<p class="notice warn">${ask}. Press ${title} again to do it.</p>`}
        ${error && html`<p class="notice bad" role="alert">${error}</p>`}
        <p class="buttons">
          <${Button} act=${close}>Cancel<//>${" "}
          <button class=${`button ${danger ? "danger" : "primary"}`} disabled=${busy}>${title}</button>
        </p>
      </form><//
    >`;
  }
}

export class Dialogs extends Component {
  componentDidMount() {
    shown = () => this.setState({});
  }
  render() {
    if (!open) return null;
    const { type: Kind, number: key, ...props } = open;
    return html`<${Kind} key=${key} ...${props} about=${live.about} />`;
  }
}

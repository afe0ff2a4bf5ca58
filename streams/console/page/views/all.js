// The views by the name that the address has. Each says what it asks the server, and makes its content of the answers.
import * as agent from "./agent.js";
import * as audit from "./audit.js";
import * as dead from "./dead.js";
import * as deployments from "./deployments.js";
import * as groups from "./groups.js";
import * as outbox from "./outbox.js";
import * as overview from "./overview.js";
import * as timeouts from "./timeouts.js";
import * as topic from "./topic.js";

export const VIEWS = { overview, agent, topic, groups, dead, timeouts, outbox, progress: deployments, audit };

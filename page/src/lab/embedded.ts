/** The laboratory for the server's page, loaded when its tab is opened. */

import { Lab } from "./lab";
import { loadMessages } from "./messages";

customElements.define("uwaga-lab", Lab);

export { Lab, loadMessages };

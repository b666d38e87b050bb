/** A notice that something was removed, with a button that undoes it until the next action. */

import { button, make, setMessage, setText } from "./dom";

export class UndoNotice {
  readonly element: HTMLElement;
  private readonly status = make("span", { attributes: { role: "status" } });
  private readonly undoButton = button("undo", () => this.undo());
  private undo = (): void => {};
  private complete: (() => void) | undefined;

  constructor() {
    this.element = make("div", { class: "row undo" }, this.status, this.undoButton);
    this.clear();
  }

  /**
   * Say that something was removed, and focus the button that calls `restore`; then `origin` has the focus again. `complete` is
   * called when the removal can no longer be undone.
   */
  show(restore: () => void, origin: HTMLElement, complete?: () => void): void {
    this.clear();
    this.complete = complete;
    this.undo = () => {
      this.complete = undefined;
      restore();
      this.clear();
      origin.focus();
    };
    setMessage(this.status, "removed");
    this.undoButton.hidden = false;
    this.undoButton.focus();
  }

  clear(): void {
    this.complete?.();
    this.complete = undefined;
    setText(this.status, "");
    this.undoButton.hidden = true;
  }
}

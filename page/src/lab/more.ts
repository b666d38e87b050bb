/** What is loaded only where it is used: the comparison of models, the frames of training, the toy that is trained. */

export { compareTab } from "./compare_tab";
export { Frames } from "./frames";
export { Training } from "./train";

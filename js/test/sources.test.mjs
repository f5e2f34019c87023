import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SOURCES = new URL("../src", import.meta.url).pathname;
const texts = readdirSync(SOURCES, { recursive: true })
  .filter((name) => /\.tsx?$/.test(name))
  .map((name) => [name, readFileSync(join(SOURCES, name), "utf8")]);
const using = (words) => texts.filter(([, text]) => text.includes(words)).map(([name]) => name);

// in a notebook, script in a page is code in the kernel
test.each([
  "innerHTML",
  "outerHTML",
  "insertAdjacentHTML",
  "dangerouslySetInnerHTML",
  "document.write",
  "eval(",
])("nothing makes markup or code of a text: %s", (banned) => expect(using(banned)).toEqual([]));

test.each(["confirm(", "alert(", "prompt("])("no dialog stops the page: %s", (banned) =>
  expect(using(banned)).toEqual([]),
);

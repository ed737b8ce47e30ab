// The text of THIRD_PARTY_NOTICES.txt.
import { compareText } from './compareText.mjs';

const RULE = '='.repeat(80);

/** Formats a list of the components, then each license text once, headed by the components that it belongs to. */
export function formatNotices(components, version) {
  const owners = new Map();
  for (const component of components) {
    const text = tidyText(component.texts);
    owners.set(text, [...(owners.get(text) ?? []), formatTitle(component)]);
  }
  const sections = [...owners]
    .toSorted(([, [a]], [, [b]]) => compareText(a, b))
    .map(([text, titles]) => `${RULE}\n${titles.join('\n')}\n${RULE}\n\n${text}\n`);
  return `Third-party notices of Plantroom ${version}

Plantroom contains the software below. The license texts follow the list.

${components.map((component) => `  ${formatTitle(component)}`).join('\n')}

${sections.join('\n')}`;
}

const formatTitle = ({ name, version, license }) => `${name} ${version} (${license})`;

const tidyText = (texts) =>
  texts
    .map((text) =>
      text
        .replaceAll(/[ \t]*\r?\n/g, '\n')
        .replaceAll(/\n{3,}/g, '\n\n')
        .replace(/^\n+/, '')
        .trimEnd(),
    )
    .join('\n\n----\n\n');

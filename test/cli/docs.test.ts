import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { createProgram } from '../../src/cli/program';
import { SETTINGS } from '../../src/config';

const ROOT = resolve(__dirname, '../..');
const PAGES = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
/** Variables that are not settings: `call` reads them. */
const OTHER_VARIABLES = new Set(['PLANTROOM_API_KEY', 'PLANTROOM_ORGANIZATION_ID']);
const formatText = (page: string): string => readFileSync(join(ROOT, page), 'utf8');
const RULES = formatText('deploy/prometheus/plantroom-alerts.yaml');
const ALERTS = [...RULES.matchAll(/alert: (\w+)/g)].map(([, name]) => name);

/** Returns the contents of code blocks and code spans. A command over several lines becomes one line. */
function getCode(text: string): string[] {
  const blocks = [...text.matchAll(/^```[^\n]*\n([\s\S]*?)^```/gm)].map(([, code = '']) =>
    code.replaceAll(/\\\n\s*/g, ''),
  );
  const spans = [...text.replaceAll(/^```[^\n]*\n[\s\S]*?^```/gm, '').matchAll(/`([^`]+)`/g)].map(([, code = '']) =>
    code.replaceAll(/\s+/g, ' '),
  );
  return [...blocks.flatMap((block) => block.split('\n')), ...spans];
}

/** Returns the words of each `plantroom ...` command in a line, up to the end of the shell command. */
function findCommands(code: string): string[][] {
  const found = [...code.matchAll(/(?<=^|[\s(])plantroom (?=[a-z])([^|;&>#)]*)/g)].map(([, rest = '']) =>
    rest.trim().split(/\s+/),
  );
  return found
    .map((words) => (words[0] === 'plantroom' ? words.slice(1) : words))
    .filter(([word = '']) => /^[a-z][a-z-]*$/.test(word));
}

/** Returns the first part of these words that the command line does not know. Undefined: it knows all of them. */
function findUnknownWord(words: readonly string[]): string | undefined {
  let command: Command = createProgram();
  let depth = 0;
  for (let next = subcommand(command, words[0]); next; next = subcommand(command, words[depth])) {
    command = next;
    depth += 1;
  }
  const word = words[depth] ?? '';
  if (isGroup(command) && /^[a-z]/.test(word)) return `${command.name()} has no command ${word}`;
  const known = new Set([
    '--help',
    '--version',
    ...listAncestors(command).flatMap(({ options }) => options.map(({ long }) => long)),
  ]);
  const unknown = words
    .map((one) => /^--[a-z][a-z-]*/.exec(one)?.[0])
    .find((flag) => flag !== undefined && !known.has(flag));
  return unknown && `${command.name()} has no ${unknown}`;
}

const subcommand = (command: Command, word: string | undefined): Command | undefined =>
  command.commands.find((one) => one.name() === word);

const listAncestors = (command: Command): Command[] => [
  command,
  ...(command.parent ? listAncestors(command.parent) : []),
];

/** `keys` only groups subcommands; `backup` can also run without one. */
const isGroup = (command: Command): boolean =>
  command.commands.length > 0 && (command.parent === null || command.options.length === 0);

/** Returns the anchors of a page as GitHub derives them from the headings. */
function listAnchors(page: string): Set<string> {
  const headings = [
    ...formatText(page)
      .replaceAll(/^```[^\n]*\n[\s\S]*?^```/gm, '')
      .matchAll(/^#+ +(.+)$/gm),
  ].map(([, heading = '']) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    ),
  );
}

describe.each(PAGES)('%s', (page) => {
  const text = formatText(page);

  function findNames(pattern: RegExp): string[] {
    return [...text.matchAll(pattern)].map(([, name = '']) => name);
  }

  it('names only commands and flags that exist', () => {
    expect(
      getCode(text)
        .flatMap(findCommands)
        .flatMap((words) => findUnknownWord(words)?.concat(': plantroom ', words.join(' ')) ?? []),
    ).toEqual([]);
  });

  it('names only settings, metrics and alerts that exist', () => {
    const variables = new Set(SETTINGS.map(({ variable }) => variable));
    const paths = new Set(SETTINGS.map(({ path }) => path));
    const sections = new Set(SETTINGS.map(({ section }) => section));
    const metricNames = new Set(
      [...formatText('docs/monitor.md').matchAll(/^\| `(plantroom_\w+)`/gm)].map(([, name]) => name),
    );
    expect(
      findNames(/\b(PLANTROOM_[A-Z][A-Z_]*[A-Z])\b/g).filter(
        (name) => !variables.has(name) && !OTHER_VARIABLES.has(name),
      ),
    ).toEqual([]);
    expect(
      findNames(/`([a-z]+\.[a-z]+[A-Z]\w*)`/g).filter(
        (path) => sections.has(path.split('.')[0] ?? '') && !paths.has(path),
      ),
    ).toEqual([]);
    expect(
      findNames(
        /\b(plantroom_[a-z_]+_(?:total|seconds|bytes|info)|plantroom_(?:executions|connections|calls)_?\w*)\b/g,
      ).filter((name) => !metricNames.has(name)),
    ).toEqual([]);
    expect(findNames(/`(Plantroom[A-Z][A-Za-z]+)`/g).filter((name) => !ALERTS.includes(name))).toEqual([]);
  });

  it('links only to existing targets', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].map(([, link = '']) => link);
    const broken = links.filter((link) => {
      const [file = '', anchor = ''] = link.split('#');
      const target = file === '' ? page : join(dirname(page), file);
      return !existsSync(join(ROOT, target)) || (anchor !== '' && !listAnchors(target).has(anchor));
    });
    expect(broken).toEqual([]);
  });
});

describe('the page checker', () => {
  it.each([
    ['```sh\nsudo -u plantroom plantroom doctr\n```', 'plantroom has no command doctr'],
    ['`plantroom keys lst`', 'keys has no command lst'],
    ['```sh\ncd /etc && plantroom backup list \\\n  --verfy\n```', 'list has no --verfy'],
    ['```sh\ndocker compose exec plantroom plantroom restore FILE --dry-run --revoke\n```', 'restore has no --revoke'],
    [
      '`systemctl stop plantroom`, `plantroom backup --rotate | grep --all x`, `journalctl -u plantroom -n 50`',
      undefined,
    ],
  ])('finds references to missing things: %j', (text, found) => {
    expect(
      getCode(text)
        .flatMap(findCommands)
        .flatMap((words) => findUnknownWord(words) ?? []),
    ).toEqual(found === undefined ? [] : [found]);
  });
});

describe('the runbook', () => {
  it('has a chapter for each alert, and the alert rule links to it', () => {
    const anchors = [...RULES.matchAll(/runbook: docs\/operate\.md#(\w+)/g)].map(([, anchor]) => anchor);
    expect(anchors).toEqual(ALERTS.map((name) => name?.toLowerCase()));
    expect(anchors).toHaveLength(10);
    expect(anchors.filter((anchor) => !listAnchors('docs/operate.md').has(anchor ?? ''))).toEqual([]);
  });
});

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { makeProgram } from '../../src/cli/program';
import { SETTINGS } from '../../src/config';

const ROOT = resolve(__dirname, '../..');
const PAGES = ['README.md', ...readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
/** Variables that are no settings: what `call` reads. */
const OTHER_VARIABLES = new Set(['PLANTROOM_API_KEY', 'PLANTROOM_ORGANIZATION_ID']);
const textOf = (page: string): string => readFileSync(join(ROOT, page), 'utf8');
const RULES = textOf('deploy/prometheus/plantroom-alerts.yaml');
const ALERTS = [...RULES.matchAll(/alert: (\w+)/g)].map(([, name]) => name);

/** What stands in blocks and spans of code; a command over several lines is one. */
function codeOf(text: string): string[] {
  const blocks = [...text.matchAll(/^```[^\n]*\n([\s\S]*?)^```/gm)].map(([, code = '']) => code.replaceAll(/\\\n\s*/g, ''));
  const spans = [...text.replaceAll(/^```[^\n]*\n[\s\S]*?^```/gm, '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code.replaceAll(/\s+/g, ' '));
  return [...blocks.flatMap((block) => block.split('\n')), ...spans];
}

/** The words of each `plantroom ...` in a line, to where the shell ends it. */
function commandsIn(code: string): string[][] {
  const found = [...code.matchAll(/(?<=^|[\s(])plantroom (?=[a-z])([^|;&>#)]*)/g)].map(([, rest = '']) => rest.trim().split(/\s+/));
  return found.map((words) => (words[0] === 'plantroom' ? words.slice(1) : words)).filter(([word = '']) => /^[a-z][a-z-]*$/.test(word));
}

/** What the command line does not know of these words; undefined: it knows them all. */
function unknownIn(words: readonly string[]): string | undefined {
  let command: Command = makeProgram();
  let depth = 0;
  for (let next = subcommand(command, words[0]); next; next = subcommand(command, words[depth])) {
    command = next;
    depth += 1;
  }
  const word = words[depth] ?? '';
  if (isGroup(command) && /^[a-z]/.test(word)) return `${command.name()} has no command ${word}`;
  const known = new Set(['--help', '--version', ...withParents(command).flatMap(({ options }) => options.map(({ long }) => long))]);
  const unknown = words.map((one) => /^--[a-z][a-z-]*/.exec(one)?.[0]).find((flag) => flag !== undefined && !known.has(flag));
  return unknown && `${command.name()} has no ${unknown}`;
}

const subcommand = (command: Command, word: string | undefined): Command | undefined => command.commands.find((one) => one.name() === word);

const withParents = (command: Command): Command[] => [command, ...(command.parent ? withParents(command.parent) : [])];

/** `keys` does nothing by itself; `backup` does. */
const isGroup = (command: Command): boolean => command.commands.length > 0 && (command.parent === null || command.options.length === 0);

/** The anchors of a page, as GitHub makes them of headings. */
function anchorsOf(page: string): Set<string> {
  const headings = [...textOf(page).replaceAll(/^```[^\n]*\n[\s\S]*?^```/gm, '').matchAll(/^#+ +(.+)$/gm)].map(([, heading = '']) => heading);
  return new Set(headings.map((heading) => heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').trim().replaceAll(' ', '-')));
}

describe.each(PAGES)('%s', (page) => {
  const text = textOf(page);

  function named(pattern: RegExp): string[] {
    return [...text.matchAll(pattern)].map(([, name = '']) => name);
  }

  it('names only commands and flags that there are', () => {
    expect(codeOf(text).flatMap(commandsIn).flatMap((words) => unknownIn(words)?.concat(': plantroom ', words.join(' ')) ?? [])).toEqual([]);
  });

  it('names only settings, numbers and alerts that there are', () => {
    const variables = new Set(SETTINGS.map(({ variable }) => variable));
    const paths = new Set(SETTINGS.map(({ path }) => path));
    const sections = new Set(SETTINGS.map(({ section }) => section));
    const numbers = new Set([...textOf('docs/monitor.md').matchAll(/^\| `(plantroom_\w+)`/gm)].map(([, name]) => name));
    expect(named(/\b(PLANTROOM_[A-Z][A-Z_]*[A-Z])\b/g).filter((name) => !variables.has(name) && !OTHER_VARIABLES.has(name))).toEqual([]);
    expect(named(/`([a-z]+\.[a-z]+[A-Z]\w*)`/g).filter((path) => sections.has(path.split('.')[0] ?? '') && !paths.has(path))).toEqual([]);
    expect(named(/\b(plantroom_[a-z_]+_(?:total|seconds|bytes|info)|plantroom_(?:executions|connections|calls)_?\w*)\b/g).filter((name) => !numbers.has(name))).toEqual([]);
    expect(named(/`(Plantroom[A-Z][A-Za-z]+)`/g).filter((name) => !ALERTS.includes(name))).toEqual([]);
  });

  it('links to what is there', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].map(([, link = '']) => link);
    const broken = links.filter((link) => {
      const [file = '', anchor = ''] = link.split('#');
      const target = file === '' ? page : join(dirname(page), file);
      return !existsSync(join(ROOT, target)) || (anchor !== '' && !anchorsOf(target).has(anchor));
    });
    expect(broken).toEqual([]);
  });
});

describe('the look at pages', () => {
  it.each([
    ['```sh\nsudo -u plantroom plantroom doctr\n```', 'plantroom has no command doctr'],
    ['`plantroom keys lst`', 'keys has no command lst'],
    ['```sh\ncd /etc && plantroom backup list \\\n  --verfy\n```', 'list has no --verfy'],
    ['```sh\ndocker compose exec plantroom plantroom restore FILE --dry-run --revoke\n```', 'restore has no --revoke'],
    ['`systemctl stop plantroom`, `plantroom backup --rotate | grep --all x`, `journalctl -u plantroom -n 50`', undefined],
  ])('finds what there is not: %j', (text, found) => {
    expect(codeOf(text).flatMap(commandsIn).flatMap((words) => unknownIn(words) ?? [])).toEqual(found === undefined ? [] : [found]);
  });
});

describe('the run book', () => {
  it('has a chapter for each alert, which its rule names', () => {
    const anchors = [...RULES.matchAll(/runbook: docs\/operate\.md#(\w+)/g)].map(([, anchor]) => anchor);
    expect(anchors).toEqual(ALERTS.map((name) => name?.toLowerCase()));
    expect(anchors).toHaveLength(10);
    expect(anchors.filter((anchor) => !anchorsOf('docs/operate.md').has(anchor ?? ''))).toEqual([]);
  });
});

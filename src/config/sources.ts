import { existsSync, readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { nearest } from '../kernel/nearest';
import { SETTINGS } from './schema';

/** A value of a setting and where it was found. */
export interface Found {
  readonly value: unknown;
  /** For people: the file with the key, the variable, or the flag. */
  readonly source: string;
}

/** What one source says, by the path of the setting; later sources win. */
export interface Layer {
  readonly found: ReadonlyMap<string, Found>;
  readonly mistakes: readonly string[];
}

/** Variables that begin with PLANTROOM_ and are no settings: what `call` reads. */
export const OTHER_VARIABLES: readonly string[] = ['PLANTROOM_API_KEY', 'PLANTROOM_ORGANIZATION_ID'];

// Container platforms set these by themselves for a service that is called "plantroom".
const FROM_THE_PLATFORM = /^PLANTROOM_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)?|NAME|ENV_\w+)$/;

/** The PLANTROOM_ variables; an empty one counts as not set. */
export function fromEnvironment(env: Readonly<Record<string, string | undefined>>): Layer {
  const found = new Map<string, Found>();
  const mistakes: string[] = [];
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith('PLANTROOM_') || !value || OTHER_VARIABLES.includes(variable) || FROM_THE_PLATFORM.test(variable)) continue;
    const setting = SETTINGS.find((candidate) => candidate.variable === variable);
    if (setting) found.set(setting.path, { value, source: variable });
    else mistakes.push(`${variable}: there is no such setting${didYouMean(variable, SETTINGS.map((s) => s.variable))}`);
  }
  return { found, mistakes };
}

/** Flags by the path of their setting. */
export function fromFlags(flags: Readonly<Record<string, string | undefined>>): Layer {
  const found = new Map<string, Found>();
  for (const setting of SETTINGS) {
    const value = flags[setting.path];
    if (value !== undefined) found.set(setting.path, { value, source: setting.flag });
  }
  return { found, mistakes: [] };
}

/** A plantroom.yaml: sections with settings. Undefined: ./plantroom.yaml if there is one; false: none. */
export function fromFile(file: string | false | undefined): Layer {
  if (file === false || (file === undefined && !existsSync('plantroom.yaml'))) return { found: new Map(), mistakes: [] };
  const name = file ?? 'plantroom.yaml';
  let text: string;
  try {
    text = readFileSync(name, 'utf8');
  } catch (error) {
    return { found: new Map(), mistakes: [`${name}: cannot be read (${error instanceof Error ? error.message : String(error)}); give the path of a readable file`] };
  }
  const document = parseDocument(text, { prettyErrors: true });
  if (document.errors.length > 0) return { found: new Map(), mistakes: document.errors.map((e) => `${name}: is not YAML: ${e.message.split('\n')[0]?.replace(/:$/, '')}`) };
  return fromDocument(name, document.toJS());
}

function fromDocument(name: string, content: unknown): Layer {
  const found = new Map<string, Found>();
  const mistakes: string[] = [];
  if (content === null) return { found, mistakes };
  if (!isRecord(content)) return { found, mistakes: [`${name}: must hold sections with settings, for example "grpc:" and below it "  listen: 0.0.0.0:50051"`] };
  const sections = [...new Set(SETTINGS.map((s) => s.section))];
  for (const [section, settings] of Object.entries(content)) {
    if (!sections.includes(section)) mistakes.push(`${name}: ${section}: there is no such section${didYouMean(section, sections)}`);
    else if (isRecord(settings)) readSection(name, section, settings, found, mistakes);
    else if (settings !== null) mistakes.push(`${name}: ${section}: must hold settings, not ${JSON.stringify(settings)}`);
  }
  return { found, mistakes };
}

function readSection(file: string, section: string, settings: Readonly<Record<string, unknown>>, found: Map<string, Found>, mistakes: string[]): void {
  const known = SETTINGS.filter((s) => s.section === section);
  for (const [name, value] of Object.entries(settings)) {
    const setting = known.find((s) => s.name === name);
    if (!setting) mistakes.push(`${file}: ${section}.${name}: there is no such setting${didYouMean(name, known.map((s) => s.name))}`);
    else if (value !== null) found.set(setting.path, { value, source: `${file}: ${setting.path}` });
  }
}

function didYouMean(text: string, candidates: readonly string[]): string {
  const near = nearest(text, candidates);
  return near === undefined ? `; there are ${candidates.join(', ')}` : `; did you mean ${near}?`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

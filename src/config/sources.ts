import { existsSync, readFileSync } from 'node:fs';
import { findNearest } from '../kernel/findNearest';
import { isObject } from '../kernel/jsonValue';
import { readYaml } from '../kernel/readYaml';
import { SETTINGS } from './schema';

/** The value of a setting and its source. */
export interface SettingValue {
  readonly value: unknown;
  /** The file with the key, the variable, or the flag; shown in messages. */
  readonly source: string;
}

/** The values of one source, by the path of the setting. */
interface ConfigLayer {
  readonly values: ReadonlyMap<string, SettingValue>;
  readonly errors: readonly string[];
}

/** PLANTROOM_ variables that are not settings: `plantroom call` reads them. */
const OTHER_VARIABLES: readonly string[] = ['PLANTROOM_API_KEY', 'PLANTROOM_ORGANIZATION_ID'];

// Container platforms set these automatically for a service named "plantroom".
const PLATFORM_VARIABLE =
  /^PLANTROOM_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)?|NAME|ENV_\w+)$/;

/** Whether a variable must belong to a setting. If no setting has it, the name is an error. */
function isSettingVariable(variable: string): boolean {
  return variable.startsWith('PLANTROOM_') && !OTHER_VARIABLES.includes(variable) && !PLATFORM_VARIABLE.test(variable);
}

/** Reads the PLANTROOM_ variables. An empty variable counts as not set. */
export function readEnvironmentLayer(env: Readonly<Record<string, string | undefined>>): ConfigLayer {
  const values = new Map<string, SettingValue>();
  const errors: string[] = [];
  for (const [variable, value] of Object.entries(env)) {
    if (!value || !isSettingVariable(variable)) continue;
    const setting = SETTINGS.find((candidate) => candidate.variable === variable);
    if (setting) {
      values.set(setting.path, { value, source: variable });
    } else {
      const knownVariables = SETTINGS.map((known) => known.variable);
      errors.push(`${variable}: unknown setting${formatSuggestion(variable, knownVariables)}`);
    }
  }
  return { values, errors };
}

/** Reads flags by the path of their setting. */
export function readFlagLayer(flags: Readonly<Record<string, string | undefined>>): ConfigLayer {
  const values = new Map<string, SettingValue>();
  for (const setting of SETTINGS) {
    const value = flags[setting.path];
    if (value !== undefined) values.set(setting.path, { value, source: setting.flag });
  }
  return { values, errors: [] };
}

/** Reads a plantroom.yaml. Undefined: ./plantroom.yaml if it exists; false: no file. */
export function readFileLayer(file: string | false | undefined): ConfigLayer {
  if (file === false || (file === undefined && !existsSync('plantroom.yaml'))) return { values: new Map(), errors: [] };
  const name = file ?? 'plantroom.yaml';
  let text: string;
  try {
    text = readFileSync(name, 'utf8');
  } catch (error) {
    return {
      values: new Map(),
      errors: [
        `${name}: cannot be read (${error instanceof Error ? error.message : String(error)}): set the path of a readable file`,
      ],
    };
  }
  const parsed = readYaml(text, 'values');
  return 'problem' in parsed
    ? { values: new Map(), errors: [`${name}: ${parsed.problem}`] }
    : readDocument(name, parsed.value);
}

/** Reads the sections of a parsed plantroom.yaml. `name`: the file, for messages. */
function readDocument(name: string, content: unknown): ConfigLayer {
  const values = new Map<string, SettingValue>();
  const errors: string[] = [];
  if (content === null) return { values, errors };
  if (!isObject(content)) {
    return {
      values,
      errors: [
        `${name}: must contain sections with settings, for example "grpc:" and below it "  listen: 0.0.0.0:50051"`,
      ],
    };
  }
  const sections = [...new Set(SETTINGS.map((setting) => setting.section))];
  for (const [section, settings] of Object.entries(content)) {
    if (!sections.includes(section))
      errors.push(`${name}: ${section}: unknown section${formatSuggestion(section, sections)}`);
    else if (isObject(settings)) readSection({ file: name, section, settings }, values, errors);
    else if (settings !== null)
      errors.push(`${name}: ${section}: must contain settings, not ${JSON.stringify(settings)}`);
  }
  return { values, errors };
}

/** One section of a configuration file. */
interface ConfigSection {
  readonly file: string;
  readonly section: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

/**
 * Adds the settings of one section to `values`, and the errors of unknown settings to `errors`. A setting without a
 * value counts as not set.
 */
function readSection(
  { file, section, settings }: ConfigSection,
  values: Map<string, SettingValue>,
  errors: string[],
): void {
  const settingsOfSection = SETTINGS.filter((setting) => setting.section === section);
  for (const [name, value] of Object.entries(settings)) {
    const setting = settingsOfSection.find((candidate) => candidate.name === name);
    if (!setting) {
      const knownNames = settingsOfSection.map((candidate) => candidate.name);
      errors.push(`${file}: ${section}.${name}: unknown setting${formatSuggestion(name, knownNames)}`);
    } else if (value !== null) {
      values.set(setting.path, { value, source: `${file}: ${setting.path}` });
    }
  }
}

/** Returns the end of an error message: the most similar candidate, or all of them if none is similar. */
function formatSuggestion(text: string, candidates: readonly string[]): string {
  const nearest = findNearest(text, candidates);
  return nearest === undefined ? `; expected one of ${candidates.join(', ')}` : `; did you mean ${nearest}?`;
}

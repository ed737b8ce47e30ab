import { resolve } from 'node:path';
import { DomainError } from '../kernel/errors';
import { CONFIG_RULES } from './rules';
import { SETTINGS, configSchema, type Config, type Setting } from './schema';
import { fromEnvironment, fromFile, fromFlags, type Found } from './sources';

/** Where configuration comes from; later ones win: the file, the environment, the flags. */
export interface ConfigSources {
  /** A plantroom.yaml; undefined: ./plantroom.yaml if there is one; false: none. */
  readonly file?: string | false | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** By the path of the setting, for example `grpc.listen`. */
  readonly flags?: Readonly<Record<string, string | undefined>>;
}

/** A configuration and where each of its values came from, by the path of the setting. */
export interface LoadedConfig {
  readonly config: Config;
  readonly sources: Readonly<Record<string, string>>;
}

const PATHS_OF_FILES = ['data.dir', 'tls.certFile', 'tls.keyFile', 'tls.clientCaFile', 'secrets.keyFile', 'bootstrap.keyFile', 'backup.dir', 'backup.passphraseFile'];

/** Reads the configuration once. Throws `configuration_invalid` with a line for every mistake, all at once; the value is frozen. */
export function loadConfig(from: ConfigSources): LoadedConfig {
  const layers = [fromFile(from.file), fromEnvironment(from.env), fromFlags(from.flags ?? {})];
  const found = new Map(layers.flatMap((layer) => [...layer.found]));
  const { config, wrong } = readSettings(found);
  const mistakes = [...layers.flatMap((layer) => layer.mistakes), ...wrong.values()];
  for (const rule of CONFIG_RULES) {
    const canBeJudged = !rule.settings.some((path) => wrong.has(path));
    if (canBeJudged && !rule.holds(config)) mistakes.push(`${sourceOf(rule.settings[0], found) ?? rule.settings[0]} ${rule.mistake(config)}`);
  }
  if (mistakes.length > 0) throw configurationInvalid(mistakes);
  return { config: deepFreeze(config), sources: Object.fromEntries(SETTINGS.map((s) => [s.path, sourceOf(s.path, found) ?? 'default'])) };
}

/** The settings, and the mistake of each wrong one; it has its default then, so that the rules can be judged. */
function readSettings(found: ReadonlyMap<string, Found>): { config: Config; wrong: Map<string, string> } {
  const wrong = new Map<string, string>();
  const values: Record<string, Record<string, unknown>> = {};
  for (const setting of SETTINGS) {
    const result = setting.schema.safeParse(found.get(setting.path)?.value);
    if (!result.success) wrong.set(setting.path, mistake(setting, found.get(setting.path), result.error.issues[0]?.message ?? 'is wrong'));
    (values[setting.section] ??= {})[setting.name] = absolute(setting, result.success ? result.data : setting.schema.parse(undefined));
  }
  return { config: configSchema.parse(values), wrong };
}

/** Mistakes in the configuration, a line for each: where it is said, and what would be right. */
export function configurationInvalid(mistakes: readonly string[]): DomainError {
  const what = mistakes.length === 1 ? 'there is a mistake' : `there are ${mistakes.length} mistakes`;
  return new DomainError('invalid_argument', 'configuration_invalid', `${what} in the configuration:\n${mistakes.map((line) => `  ${line}`).join('\n')}`, {
    violations: mistakes.map((description) => ({ field: '', description })),
  });
}

function mistake(setting: Setting, found: Found | undefined, right: string): string {
  const value = setting.secret ? 'wrong' : JSON.stringify(found?.value);
  return `${found?.source ?? setting.path} is ${value}: ${right}`;
}

function sourceOf(path: string, found: ReadonlyMap<string, Found>): string | undefined {
  return found.get(path)?.source;
}

function absolute(setting: Setting, value: unknown): unknown {
  return PATHS_OF_FILES.includes(setting.path) && typeof value === 'string' && value !== '' ? resolve(value) : value;
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const inner of Object.values(Object.freeze(value))) deepFreeze(inner);
  return value;
}

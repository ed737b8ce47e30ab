import { resolve } from 'node:path';
import { DomainError } from '../kernel/errors';
import { CONFIG_RULES } from './rules';
import { SETTINGS, configSchema, type Config, type Setting } from './schema';
import { readEnvironmentLayer, readFileLayer, readFlagLayer, type SettingValue } from './sources';

/** The sources of the configuration. Precedence, lowest first: file, environment, flags. */
interface ConfigSources {
  /** The path of a plantroom.yaml; undefined: ./plantroom.yaml if it exists; false: no file. */
  readonly file?: string | false | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Values by the path of the setting, for example `grpc.listen`. */
  readonly flags?: Readonly<Record<string, string | undefined>>;
}

/** A configuration, and the source of each value by the path of the setting. */
export interface LoadedConfig {
  readonly config: Config;
  readonly sources: Readonly<Record<string, string>>;
}

/** Settings that are paths: they are resolved against the current directory. */
const PATH_SETTINGS = [
  'data.dir',
  'tls.certFile',
  'tls.keyFile',
  'tls.clientCaFile',
  'secrets.keyFile',
  'bootstrap.keyFile',
  'backup.dir',
  'backup.passphraseFile',
];

/**
 * Loads the configuration. The result is frozen. Throws `configuration_invalid` with one line for every invalid
 * setting.
 */
export function loadConfig(configSources: ConfigSources): LoadedConfig {
  // In the order of precedence: in the map below, a later layer replaces the values of the earlier ones.
  const layers = [
    readFileLayer(configSources.file),
    readEnvironmentLayer(configSources.env),
    readFlagLayer(configSources.flags ?? {}),
  ];
  const sourceValues = new Map(layers.flatMap((layer) => [...layer.values]));
  const { config, errorsByPath } = readSettings(sourceValues);
  const errors = [...layers.flatMap((layer) => layer.errors), ...errorsByPath.values()];
  for (const rule of CONFIG_RULES) {
    const hasInvalidSetting = rule.settings.some((path) => errorsByPath.has(path));
    if (hasInvalidSetting || rule.isSatisfied(config)) continue;
    const [mainSetting] = rule.settings;
    errors.push(`${findSource(mainSetting, sourceValues) ?? mainSetting} ${rule.describeError(config)}`);
  }
  if (errors.length > 0) throw configurationInvalid(errors);
  return {
    config: deepFreeze(config),
    sources: Object.fromEntries(
      SETTINGS.map((setting) => [setting.path, findSource(setting.path, sourceValues) ?? 'default']),
    ),
  };
}

/**
 * Parses the settings and collects an error for each invalid one. An invalid setting gets its default, so that the
 * rules can still be checked.
 */
function readSettings(sourceValues: ReadonlyMap<string, SettingValue>): {
  config: Config;
  errorsByPath: Map<string, string>;
} {
  const errorsByPath = new Map<string, string>();
  const values: Record<string, Record<string, unknown>> = {};
  for (const setting of SETTINGS) {
    // Without a value in any source, the schema returns the default.
    const result = setting.schema.safeParse(sourceValues.get(setting.path)?.value);
    if (!result.success) {
      errorsByPath.set(
        setting.path,
        formatError(setting, sourceValues.get(setting.path), result.error.issues[0]?.message ?? 'is invalid'),
      );
    }
    const value = result.success ? result.data : setting.schema.parse(undefined);
    values[setting.section] = { ...values[setting.section], [setting.name]: resolvePath(setting, value) };
  }
  return { config: configSchema.parse(values), errorsByPath };
}

/** Creates the error for an invalid configuration, with one line per setting. */
function configurationInvalid(errors: readonly string[]): DomainError {
  const summary = errors.length === 1 ? 'one error' : `${errors.length} errors`;
  return new DomainError(
    'invalid_argument',
    'configuration_invalid',
    `${summary} in the configuration:\n${errors.map((line) => `  ${line}`).join('\n')}`,
    {
      violations: errors.map((description) => ({ field: '', description })),
    },
  );
}

/** Formats the error of one setting; the value of a secret setting is not shown. */
function formatError(setting: Setting, settingValue: SettingValue | undefined, expected: string): string {
  const shownValue = setting.secret ? 'wrong' : JSON.stringify(settingValue?.value);
  return `${settingValue?.source ?? setting.path} is ${shownValue}: ${expected}`;
}

/** Returns the file key, variable or flag that set a setting; undefined: none, so the default applies. */
function findSource(path: string, sourceValues: ReadonlyMap<string, SettingValue>): string | undefined {
  return sourceValues.get(path)?.source;
}

/** Makes the value of a path setting absolute; returns any other value unchanged. */
function resolvePath(setting: Setting, value: unknown): unknown {
  return PATH_SETTINGS.includes(setting.path) && typeof value === 'string' && value !== '' ? resolve(value) : value;
}

/** Freezes a value and everything in it. */
function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(Object.freeze(value))) deepFreeze(inner);
  return value;
}

import { type Command, InvalidArgumentError, Option } from 'commander';
import { loadConfig, SETTINGS, type LoadedConfig, type Setting } from '../config';

/**
 * Flags of every command that reads the configuration. Commander also adds the flags of settings, by attribute name.
 */
export interface ConfigFlags {
  readonly config?: string;
  readonly json?: boolean;
}

/** The settings of every command that works on the data folder. */
export const DATA_SETTINGS: readonly string[] = ['data.dir', 'database.url', 'log.level'];

/** Adds --json. */
export function withJson(command: Command): Command {
  return command.option('--json', 'print output as JSON');
}

/** Adds --config and a flag for each setting of `paths`; for all settings if `paths` is undefined. */
export function withConfig(command: Command, paths?: readonly string[]): Command {
  command.addOption(
    new Option('--config <file>', 'configuration file to read (default: ./plantroom.yaml if it exists)').helpGroup(
      'Configuration:',
    ),
  );
  for (const setting of SETTINGS) if (!paths || paths.includes(setting.path)) command.addOption(getOption(setting));
  return command;
}

/** Adds a subcommand that works on the data folder, with --json and its settings. */
export function addDataCommand(group: Command, name: string, description: string): Command {
  return withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS);
}

/**
 * Loads the configuration of a command. Flags override the environment, which overrides the file, which overrides the
 * defaults. Throws `configuration_invalid`.
 */
export function getConfig(flags: ConfigFlags): LoadedConfig {
  const valueByAttribute = flags as Readonly<Record<string, string | undefined>>;
  return loadConfig({
    file: flags.config,
    env: process.env,
    flags: Object.fromEntries(
      SETTINGS.map((setting) => [setting.path, valueByAttribute[getOption(setting).attributeName()]]),
    ),
  });
}

/** Parses a duration such as `500ms`, `2s`, `5m`, `24h` or `30d`; without a unit: seconds. Returns milliseconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text);
  if (!match) throw new InvalidArgumentError('use a number and a unit, for example 500ms, 2s, 5m, 24h or 30d');
  return Math.round(Number(match[1]) * (UNITS[match[2] ?? 's'] ?? 1000));
}

/** Parses a comma-separated list; empty items are omitted. */
export function parseCommaList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean);
}

/** The parser of an option that can be repeated: appends its value to the earlier ones. */
export function appendValue<Value>(value: Value, previous: readonly Value[] = []): readonly Value[] {
  return [...previous, value];
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function getOption(setting: Setting): Option {
  return new Option(`${setting.flag} <value>`, `${setting.description} (${setting.variable})`).helpGroup(
    'Configuration:',
  );
}

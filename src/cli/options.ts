import { type Command, InvalidArgumentError, Option } from 'commander';
import { loadConfig, SETTINGS, type LoadedConfig, type Setting } from '../config';

/** What every command that reads the configuration is given by commander: `config`, and the flags of settings by attribute name. */
export interface ConfigFlags {
  readonly config?: string;
  readonly json?: boolean;
}

/** The settings that every command needs which works on the data folder. */
export const DATA_SETTINGS: readonly string[] = ['data.dir', 'database.url', 'log.level'];

/** Adds --json. */
export function withJson(command: Command): Command {
  return command.option('--json', 'write one JSON value for programs');
}

/** Adds --config and a flag for each of the settings (their paths; all when none are named). */
export function withConfig(command: Command, paths?: readonly string[]): Command {
  command.addOption(new Option('--config <file>', 'plantroom.yaml to read (default: ./plantroom.yaml if there is one)').helpGroup('Configuration:'));
  for (const setting of SETTINGS) if (!paths || paths.includes(setting.path)) command.addOption(optionOf(setting));
  return command;
}

/** The configuration of a command: defaults < file < environment < its flags. Throws `configuration_invalid`. */
export function configOf(flags: ConfigFlags, env: NodeJS.ProcessEnv = process.env): LoadedConfig {
  const given = flags as Readonly<Record<string, string | undefined>>;
  return loadConfig({ file: flags.config, env, flags: Object.fromEntries(SETTINGS.map((s) => [s.path, given[optionOf(s).attributeName()]])) });
}

/** Parses a time span such as `500ms`, `2s`, `5m`, `24h`, `30d`; the answer is in milliseconds. */
export function duration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text);
  if (!match) throw new InvalidArgumentError('give a number and a unit, for example 500ms, 2s, 5m, 24h or 30d');
  return Math.round(Number(match[1]) * (UNITS[match[2] ?? 's'] ?? 1000));
}

/** Parses a list with commas between. */
export function commaList(text: string): string[] {
  return text.split(',').map((item) => item.trim()).filter(Boolean);
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function optionOf(setting: Setting): Option {
  return new Option(`${setting.flag} <value>`, `${setting.description} (${setting.variable})`).helpGroup('Configuration:');
}

import { type Config, SETTINGS } from './schema';

/** Converts a configuration to PLANTROOM_ variables, to pass it to a child process. Empty values are omitted. */
export function toEnvironmentVariables(config: Config): Record<string, string> {
  const values: Readonly<Record<string, Readonly<Record<string, unknown>>>> = config;
  const variables = SETTINGS.map(({ section, name, variable }) => {
    const value = values[section]?.[name];
    return [variable, Array.isArray(value) ? value.join(',') : String(value)] as const;
  });
  return Object.fromEntries(variables.filter(([, value]) => value !== ''));
}

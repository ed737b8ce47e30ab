import { type Config, SETTINGS } from './schema';

/** A configuration as the PLANTROOM_ variables that say the same, for another process of this program. What is empty is left out. */
export function asVariables(config: Config): Record<string, string> {
  const values: Readonly<Record<string, Readonly<Record<string, unknown>>>> = config;
  const all = SETTINGS.map(({ section, name, variable }) => {
    const value = values[section]?.[name];
    return [variable, Array.isArray(value) ? value.join(',') : String(value)] as const;
  });
  return Object.fromEntries(all.filter(([, value]) => value !== ''));
}

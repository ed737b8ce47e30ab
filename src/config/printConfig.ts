import { SETTINGS } from './schema';
import type { LoadedConfig } from './loadConfig';

/** One setting as it is shown to people and programs. */
export interface ShownSetting {
  /** `tls.mode`. */
  readonly setting: string;
  /** Passwords are replaced by `***`. */
  readonly value: unknown;
  /** The file, variable or flag that it came from, or `default`. */
  readonly source: string;
}

/** Every setting with its value and where it came from; secrets hidden. */
export function shownSettings({ config, sources }: LoadedConfig): ShownSetting[] {
  const values: Readonly<Record<string, Readonly<Record<string, unknown>>>> = config;
  return SETTINGS.map((s) => {
    const value = values[s.section]?.[s.name];
    return { setting: s.path, value: s.secret ? withoutPassword(String(value)) : value, source: sources[s.path] ?? 'default' };
  });
}

/** A database URL as it may be shown and logged: passwords as `***`, also those in its query. */
export function withoutPassword(url: string): string {
  if (url === '') return '';
  if (!URL.canParse(url)) return '***';
  const shown = new URL(url);
  if (shown.password) shown.password = '***';
  for (const name of shown.searchParams.keys()) if (/pass|secret|token/i.test(name)) shown.searchParams.set(name, '***');
  return shown.toString();
}

import { SETTINGS } from './schema';
import type { LoadedConfig } from './loadConfig';

/** One setting as `config print` shows it. */
interface SettingView {
  /** The path of the setting, for example `tls.mode`. */
  readonly setting: string;
  /** The value; passwords are replaced by `***`. */
  readonly value: unknown;
  /** The file, variable or flag that set the value, or `default`. */
  readonly source: string;
}

/** Lists every setting with its value and source. Secrets are hidden. */
export function listSettings({ config, sources }: LoadedConfig): SettingView[] {
  const values: Readonly<Record<string, Readonly<Record<string, unknown>>>> = config;
  return SETTINGS.map((setting) => {
    const value = values[setting.section]?.[setting.name];
    return {
      setting: setting.path,
      value: setting.secret ? redactPassword(String(value)) : value,
      source: sources[setting.path] ?? 'default',
    };
  });
}

/**
 * Replaces passwords in a database URL by `***`, including those in its query, so that it can be shown and logged. Text
 * that is not a URL becomes `***` altogether.
 */
export function redactPassword(url: string): string {
  if (url === '') return '';
  if (!URL.canParse(url)) return '***';
  const redacted = new URL(url);
  if (redacted.password) redacted.password = '***';
  for (const name of redacted.searchParams.keys()) {
    if (/pass|secret|token/i.test(name)) redacted.searchParams.set(name, '***');
  }
  return redacted.toString();
}

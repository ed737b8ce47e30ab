import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { version } from '../../package.json';
import { loadConfig, SETTINGS } from '../../src/config';

const FOLDER = join(__dirname, '..', '..', 'deploy', 'compose');

interface Service {
  readonly image: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly [key: string]: unknown;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

// The Compose keys of a service that these files use. Any other key is a typing error.
const KNOWN = new Set(['image', 'hostname', 'restart', 'environment', 'ports', 'volumes', 'healthcheck', 'depends_on', 'read_only', 'tmpfs', 'cap_drop', 'security_opt', 'stop_grace_period', 'logging', 'user', 'entrypoint', 'command', 'shm_size']);

/** Substitutes variables as Compose does: with the default of the variable, otherwise with `secret`. */
function substituteVariables(text: string): string {
  return text.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1').replaceAll(/\$\{\w+:\?[^}]*\}/g, 'secret');
}

const compositions = readdirSync(FOLDER, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name);

describe.each(compositions)('deploy/compose/%s', (name) => {
  const compose = parse(readFileSync(join(FOLDER, name, 'compose.yaml'), 'utf8'), { merge: true }) as Compose;
  const services = Object.entries(compose.services);
  const { plantroom } = compose.services;

  it('gives Plantroom valid settings, its own version, its ports, and backups', () => {
    const environment = Object.fromEntries(Object.entries(plantroom?.environment ?? {}).map(([key, value]) => [key, substituteVariables(value)]));
    expect(Object.keys(environment).filter((key) => key.startsWith('PLANTROOM_') && !SETTINGS.some((setting) => setting.variable === key))).toEqual([]);
    const { config } = loadConfig({ file: false, env: environment });
    expect(config.backup.schedule).not.toBe('off');
    expect(plantroom?.image).toMatch(new RegExp(`^plantroom:${version.replaceAll('.', '\\.')}(-pg)?$`));
    expect(plantroom?.ports).toEqual([config.grpc.listen, config.http.listen].map((listen) => listen.replace(/.*:(\d+)/, '$1:$1')));
    expect(plantroom?.image.endsWith('-pg')).toBe(config.database.url !== '');
    expect(Number.parseInt(String(plantroom?.['stop_grace_period']), 10) * 1000).toBeGreaterThan(config.limits.shutdownTimeoutMs + 5000);
    expect(plantroom?.volumes?.map((volume) => volume.split(':')[1])).toEqual(['/var/lib/plantroom', '/var/backups/plantroom']);
  });

  it.each(services)('locks %s down, pins its version, and checks its health', (service, settings) => {
    expect(Object.keys(settings).filter((key) => !KNOWN.has(key))).toEqual([]);
    expect(settings).toMatchObject({ image: expect.stringMatching(/:\d+\.\d+(\.\d+)?(-[\w.]+)?$/), restart: 'unless-stopped', read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'], logging: { driver: 'json-file' } });
    // The health check of Plantroom is part of its image.
    if (service !== 'plantroom') expect(settings.healthcheck?.test[0]).toMatch(/^CMD(-SHELL)?$/);
  });

  it('refers only to existing services, volumes and files', () => {
    for (const [, settings] of services) {
      for (const [other, { condition }] of Object.entries(settings.depends_on ?? {})) expect([compose.services[other] !== undefined, condition]).toEqual([true, 'service_healthy']);
      for (const [source = ''] of (settings.volumes ?? []).map((volume) => volume.split(':'))) expect([source, source.startsWith('.') ? existsSync(join(FOLDER, name, source)) : source in compose.volumes]).toEqual([source, true]);
    }
    const used = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0]));
    expect(Object.keys(compose.volumes).filter((volume) => !used.includes(volume))).toEqual([]);
  });

  it('explains how to create the required passwords', () => {
    const text = readFileSync(join(FOLDER, name, 'compose.yaml'), 'utf8');
    const head = text.slice(0, text.indexOf('\nname:'));
    const requiredVariables = new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, variable]) => variable));
    expect([...requiredVariables].filter((variable) => !head.includes(String(variable)))).toEqual([]);
  });
});

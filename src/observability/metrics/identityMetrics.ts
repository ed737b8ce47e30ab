import type { DatabaseDescription } from '../../database';
import { gauge, type MetricFamily } from './metricFamily';

/** The identity of the server. */
export interface IdentitySource {
  readonly program: { readonly version: string; readonly commit: string; readonly node: string };
  readonly databaseDescription: DatabaseDescription;
  /** When the certificate of the ports expires, Unix milliseconds; undefined: there is none. */
  readonly getCertificateNotAfter: () => number | undefined;
}

/** Creates the metrics of the build and of the expiry of the certificate. */
export function createIdentityFamilies({
  program,
  databaseDescription: { engine, version: engineVersion, schema },
  getCertificateNotAfter,
}: IdentitySource): MetricFamily[] {
  return [
    {
      name: 'plantroom_build_info',
      help: 'Build information: version, commit, Node.js version, database engine and schema. Always 1.',
      type: 'gauge',
      labels: ['version', 'commit', 'node', 'database', 'database_version', 'schema'],
      samples: () => [
        { labels: [program.version, program.commit, program.node, engine, engineVersion, schema], value: 1 },
      ],
    },
    gauge(
      'plantroom_certificate_not_after_timestamp_seconds',
      'When the TLS certificate expires, Unix seconds. Absent without a certificate.',
      () => {
        const notAfter = getCertificateNotAfter();
        return notAfter === undefined ? undefined : notAfter / 1000;
      },
    ),
  ];
}

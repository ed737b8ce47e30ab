import type { DatabaseFacts } from '../../database';
import { gauge, type Family } from './family';

/** What the server is. */
export interface IdentitySource {
  readonly program: { readonly version: string; readonly commit: string; readonly node: string };
  readonly databaseFacts: DatabaseFacts;
  /** When the certificate of the ports ends, Unix milliseconds; undefined: there is none. */
  readonly certificateEndsAt: () => number | undefined;
}

/** What the server is, and until when it can prove it. */
export function identityFamilies({ program, databaseFacts: { engine, version: engineVersion, schema }, certificateEndsAt }: IdentitySource): Family[] {
  return [
    {
      name: 'plantroom_build_info',
      help: 'Always 1; the labels say which program on which runtime, with which database and schema.',
      type: 'gauge',
      labels: ['version', 'commit', 'node', 'database', 'database_version', 'schema'],
      samples: () => [{ labels: [program.version, program.commit, program.node, engine, engineVersion, schema], value: 1 }],
    },
    gauge('plantroom_certificate_end_timestamp_seconds', 'When the certificate of the ports ends, Unix seconds; only where there is one.', () => {
      const endsAt = certificateEndsAt();
      return endsAt === undefined ? undefined : endsAt / 1000;
    }),
  ];
}

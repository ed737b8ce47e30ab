import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bootstrapped } from '../../access';
import { startServer } from '../../server';
import { loadConfig } from '../../config';
import { systemClock } from '../../kernel/clock';
import { getCredentials, getSecurity, type Target } from '../call/target';
import { createCommandLog } from '../log';

/** A temporary server. */
interface DemoServer {
  /** The server with the key of its first start. */
  readonly target: Target;
  /** Stops the server and removes its folder. */
  remove(): Promise<void>;
}

/** Starts a server in a temporary folder on a free port, independent of the local configuration. */
export async function startDemoServer(): Promise<DemoServer> {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-demo-'));
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    const { config } = loadConfig({
      file: false,
      env: {},
      flags: {
        'data.dir': folder,
        'grpc.listen': '127.0.0.1:0',
        'http.listen': '127.0.0.1:0',
        'metrics.listen': 'off',
        'database.diskReserveMib': '0',
        'limits.shutdownTimeoutMs': '2000',
      },
    });
    const app = await startServer(config, { log: createCommandLog('warn'), clock: systemClock });
    const { organization, key } = app.bootstrapped as Bootstrapped;
    const security = getSecurity({ address: app.addresses.grpc, plaintext: false, ca: app.ca });
    const remove = async (): Promise<void> => {
      await app.stop();
      removeFolder();
    };
    return {
      target: {
        address: app.addresses.grpc,
        security,
        credentials: getCredentials(security),
        key,
        organizationId: organization.id,
      },
      remove,
    };
  } catch (error) {
    removeFolder();
    throw error;
  }
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bootstrapped } from '../../access';
import { startApp } from '../../app';
import { loadConfig } from '../../config';
import { systemClock } from '../../kernel/clock';
import { credentialsOf, securityOf, type Target } from '../call/target';
import { commandLog } from '../log';

/** A server that leaves nothing behind. */
export interface DemoServer {
  /** With the key of its first start. */
  readonly target: Target;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

/** Starts a server in a folder of its own, on a port of its own, whatever the configuration here says. */
export async function startDemoServer(): Promise<DemoServer> {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-demo-'));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    const { config } = loadConfig({ file: false, env: {}, flags: { 'data.dir': folder, 'grpc.listen': '127.0.0.1:0', 'http.listen': '127.0.0.1:0', 'metrics.listen': 'off', 'database.reserveMib': '0', 'limits.stopMs': '2000' } });
    const app = await startApp(config, { log: commandLog('warn'), clock: systemClock });
    const { organization, key } = app.bootstrapped as Bootstrapped;
    const security = securityOf({ address: app.addresses.grpc, plaintext: false, ca: app.ca });
    const remove = async (): Promise<void> => {
      await app.stop();
      clean();
    };
    return { target: { address: app.addresses.grpc, security, credentials: credentialsOf(security), key, organizationId: organization.id }, remove };
  } catch (error) {
    clean();
    throw error;
  }
}

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type GatewayStore, memoryStore, sqliteStore } from '../../../client/gateway';
import { loadNativeModule, removeOldNativeModules } from '../../../database';

/**
 * Creates the store for commands and uplinks: a SQLite file, or in memory if no file is set. `reportsVolatile`: the
 * file reports itself as volatile too, so that the server sees a gateway that loses its commands when it restarts.
 */
export function createSimulatorStore(file: string | undefined, reportsVolatile: boolean): GatewayStore {
  if (file === undefined) return memoryStore();
  const store = sqliteStore({ file, ...loadNativeSqlite(dirname(file)) });
  return reportsVolatile ? asVolatile(store) : store;
}

/**
 * Loads the native SQLite module. The single binary extracts the module into the folder and removes the modules of
 * earlier versions. If the folder does not exist, the store reports the error.
 */
function loadNativeSqlite(folder: string): { nativeBinding?: object } {
  if (!existsSync(folder)) return {};
  const nativeBinding = loadNativeModule(folder);
  removeOldNativeModules();
  return { nativeBinding };
}

/** Wraps a store so that it reports itself as volatile. */
function asVolatile(store: GatewayStore): GatewayStore {
  return {
    isDurable: false,
    open: (identity) => store.open(identity),
    openCommands: () => store.openCommands(),
    findCommand: (executionId) => store.findCommand(executionId),
    uplinksAfter: (position, max) => store.uplinksAfter(position, max),
    get uplinkCount() {
      return store.uplinkCount;
    },
    get uplinkBytes() {
      return store.uplinkBytes;
    },
    apply: (changes) => store.apply(changes),
    close: () => store.close(),
  };
}

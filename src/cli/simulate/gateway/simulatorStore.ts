import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type GatewayStore, memoryStore, sqliteStore } from '../../../client/gateway';
import { loadEngine, removeOldEngines } from '../../../database';

/** Where the simulator keeps commands and uplinks: in a SQLite file, or in memory where none is given. `isVolatile`: it says that a restart forgets them, whether it does or not. */
export function simulatorStore(file: string | undefined, isVolatile: boolean): GatewayStore {
  if (file === undefined) return memoryStore();
  const store = sqliteStore({ file, ...engineIn(dirname(file)) });
  return isVolatile ? calledVolatile(store) : store;
}

/** The single binary lays its machine code in the folder, in the place of what earlier versions laid there; that there is no such folder is for the store to say. */
function engineIn(folder: string): { nativeBinding?: object } {
  if (!existsSync(folder)) return {};
  const nativeBinding = loadEngine(folder);
  removeOldEngines();
  return { nativeBinding };
}

function calledVolatile(store: GatewayStore): GatewayStore {
  return {
    isDurable: false,
    open: (identity) => store.open(identity),
    openCommands: () => store.openCommands(),
    findCommand: (executionId) => store.findCommand(executionId),
    uplinksAfter: (position, most) => store.uplinksAfter(position, most),
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

import { findMosquitto } from './mosquitto';

/** Once, before all: one sentence instead of a failure of every test. The default export is what jest asks for. */
export default function needsMosquitto(): void {
  findMosquitto();
}

const LORAWAN_KINDS: readonly (string | undefined)[] = ['chirpstack', 'chirpstack_confirmed'];

/** Whether a connection of this kind (of the state machine) uses LoRaWAN; undefined: there is no connection. */
export function isLorawan(kind: string | undefined): boolean {
  return LORAWAN_KINDS.includes(kind);
}

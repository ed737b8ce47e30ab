// Ends the PostgreSQL of this run: closing its keeper's input stops it and removes its folder.
module.exports = async () => {
  const keeper = globalThis.plantroomPostgres;
  if (!keeper) return;
  keeper.ref();
  const ended = new Promise((resolve) => keeper.once('exit', resolve));
  keeper.stdin.end();
  await ended;
};

#ifndef TESSERA_TOOLS_LAUNCH_STOP_SIGNAL_H_
#define TESSERA_TOOLS_LAUNCH_STOP_SIGNAL_H_

namespace tessera {

// From now on SIGINT, SIGTERM and SIGUSR1 only ask this process to stop; a second
// SIGINT ends it at once. SIGUSR1 is how a launcher asks, since mpirun ends a rank
// one second after the others.
void CatchStopSignals();

// Whether one of them has come. Callable from any thread. Ranks may see different
// answers at a time: agree before acting on it.
bool StopRequested();

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_STOP_SIGNAL_H_
